"""A league: members, what they score against each other, who meets whom, who stays, and who copies whom."""
