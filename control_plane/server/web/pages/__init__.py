"""The pages that need more than a template, one module for each resource."""
