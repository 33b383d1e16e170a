"""Quotients and sums around them, each with whether the assembler makes one instruction of both."""

QUOTIENT = "div.full.f32 %r2, %a0, %a1; "
AT_ONCE = {
    "added": QUOTIENT + "add.f32 %o0, %r2, %a3;",
    "added to": QUOTIENT + "add.f32 %o0, %a3, %r2;",
    "less": QUOTIENT + "sub.f32 %o0, %r2, %a2;",
    "from": QUOTIENT + "sub.f32 %o0, %a2, %r2;",
    "in two sums": QUOTIENT + "add.f32 %o0, %r2, %a3; sub.f32 %o1, %a2, %r2;",
    "with others between": QUOTIENT + "mul.f32 %o1, %a0, %a2; add.f32 %o0, %r2, %a3;",
}
APART = {
    "a sum that rounds": QUOTIENT + "add.rn.f32 %o0, %r2, %a3;",
    "a quotient that is kept": QUOTIENT + "add.f32 %o0, %r2, %a3; mov.b32 %o1, %r2;",
    "a quotient in a product, too": QUOTIENT + "add.f32 %o0, %r2, %a3; mul.f32 %o1, %r2, %r2;",
    "a sum of another block": QUOTIENT
    + "setp.eq.s32 %p1, %a4, 3; @%p1 bra NEXT; mov.b32 %o1, %a0; NEXT: add.f32 %o0, %r2, %a3;",
    "a quotient that rounds": "div.rn.f32 %r2, %a0, %a1; add.f32 %o0, %r2, %a3;",
}
"""%a2 is to hold the quotient, %a3 its negative: one instruction leaves what rounding took away, two leave 0."""
