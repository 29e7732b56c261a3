"""Operations on runs: submit, claim, explain, decide, cancel."""
