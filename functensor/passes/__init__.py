"""Passes: functions that take a program and return a better one that computes the same."""
