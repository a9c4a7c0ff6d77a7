"""What makes the integers of a Q/DQ graph better, by what they do to its samples."""
