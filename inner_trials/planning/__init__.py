"""What the planner is made of: the axes of a plan, its rules, and what a plan implies."""
