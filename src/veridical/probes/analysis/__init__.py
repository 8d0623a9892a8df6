"""What probes can and cannot see, as rows and pictures: by sublayer, by kind of error, from one data set to another,
by size of the model, by how much of the source it may read (Chwang et al. 2024, section 6)."""
