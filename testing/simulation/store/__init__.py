"""A behaving double of MongoDB at the driver's level, in memory."""
