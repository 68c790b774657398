"""Errors as users get them: by public names, at the user's line, with a fix."""
