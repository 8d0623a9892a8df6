"""The detectors of the papers, with a package for each family and a module for each method."""
