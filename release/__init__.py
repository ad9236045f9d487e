"""Wheels and releases: what is prebuilt, how wheels are made, looked at and tried. docs/design/wheels.md."""
