"""What a hostile program may use and reach, and what can hold it."""
