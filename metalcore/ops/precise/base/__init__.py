"""What the files of this folder share."""
