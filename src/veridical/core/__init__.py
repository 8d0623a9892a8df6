"""The types, spans, segmentation, decisions, JSON form, registry and errors that everything else is written in."""
