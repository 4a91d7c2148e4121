"""What single values are: numbers, formulas, words for what is computed."""
