"""The whole fleet on one machine: a real MongoDB, an S3 server, the control plane, workers."""
