"""One program per pod: claims runs, supervises the pipeline's child, reports."""
