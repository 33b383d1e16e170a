"""What commands show on a terminal, by rich: coloured there, plain elsewhere, for any width."""
