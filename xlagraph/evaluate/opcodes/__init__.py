"""What each opcode computes, with numpy."""
