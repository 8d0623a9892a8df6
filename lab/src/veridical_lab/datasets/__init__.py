"""Read labelled data in the formats of their publishers, with one module per data set or family of similar sets."""
