"""From matrix text and case declarations to a plan of cells; pure."""
