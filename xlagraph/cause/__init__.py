"""What a cause is: the values that rules take and give, and the editor that undoes them."""
