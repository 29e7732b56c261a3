"""One program per pod: claims runs, supervises the pipeline's child process, sends events."""
