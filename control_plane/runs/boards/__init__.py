"""Boards over runs, lists of runs with columns of choice, and the names under which both are saved."""
