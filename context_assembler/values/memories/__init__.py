"""What is remembered: records, their kinds, what of them is found by, and their form as JSON."""
