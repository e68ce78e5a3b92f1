"""Games: OpenSpiel's rules, our words."""
