"""Programs for working on Clearhead. They aren't part of the package."""
