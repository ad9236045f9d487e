"""References and draws that several ops share."""
