"""AMD machine code: the assembly text that LLVM prints, executed over all lanes of many waves at once."""
