"""Numbers: constants, parameters, indices that were picked, random draws."""
