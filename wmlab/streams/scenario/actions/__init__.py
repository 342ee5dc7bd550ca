"""What a script can make happen, by what it happens to."""
