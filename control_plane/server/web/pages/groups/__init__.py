"""The pages of groups: their plan, their members, and the charts of what these measured."""
