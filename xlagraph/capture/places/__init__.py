"""Where in the user's program something happened, and the source lines there."""
