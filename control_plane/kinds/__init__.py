"""How each kind shows: parts of a run, sections of its page, pages and routes of its own."""
