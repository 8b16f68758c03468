"""What each plot of a study shows, computed from columns, small enough to send. Pure."""
