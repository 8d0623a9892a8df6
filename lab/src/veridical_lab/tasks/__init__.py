"""Let models write texts from sources, and turn the texts into cases."""
