"""OpenSpiel games as worlds: rules from OpenSpiel, words of our own."""
