"""Helpers that every emitted module carries: the way to the runtime's slow path."""

SUPPORT = """
@mc.zero = internal constant [16 x i8] zeroinitializer, align 16
@mc.sink = internal global [16 x i8] zeroinitializer, align 64

; Its address is taken so that its argument stays in a register of its own.
@llvm.compiler.used = appending global [1 x ptr] [ptr @mc.attend], section "llvm.metadata"

; Something is to be looked at: true where the kernel is to leave. Whoever asks, in a loop, keeps its registers.
define internal preserve_allcc i1 @mc.attend(ptr nest %stop) noinline cold nounwind #2 {
entry:
  %attend_at = getelementptr i8, ptr %stop, i64 8
  %attend = load ptr, ptr %attend_at
  %answer = call i32 %attend(ptr %stop)
  %leave = icmp ne i32 %answer, 0
  ret i1 %leave
}

define internal void @mc.spread(ptr %base, ptr %offsets, ptr %out) noinline cold nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr i64, ptr %offsets, i64 %i
  %offset = load i64, ptr %from
  %address = getelementptr i8, ptr %base, i64 %offset
  %to = getelementptr ptr, ptr %out, i64 %i
  store ptr %address, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 32
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Fill an mc_access: for each lane the bounds of the piece of memory that holds it, or of the first one.
define internal void @mc.slow(ptr %L, ptr %Wk, i32 %site, i32 %size, i32 %kind, i32 %mask, i32 %first,
                              ptr %addresses, i64 %n, ptr %bounds, ptr %data) noinline cold nounwind {
entry:
  %a = alloca [808 x i8], align 16
  store i32 %site, ptr %a
  %p1 = getelementptr i8, ptr %a, i64 4
  store i32 %mask, ptr %p1
  %p2 = getelementptr i8, ptr %a, i64 8
  store i32 %size, ptr %p2
  %p3 = getelementptr i8, ptr %a, i64 12
  store i32 %kind, ptr %p3
  %p4 = getelementptr i8, ptr %a, i64 16
  store i32 %first, ptr %p4
  %gp = getelementptr i8, ptr %Wk, i64 32
  %g0 = load i32, ptr %gp
  %p5 = getelementptr i8, ptr %a, i64 20
  store i32 %g0, ptr %p5
  %gp1 = getelementptr i8, ptr %Wk, i64 36
  %g1 = load i32, ptr %gp1
  %p6 = getelementptr i8, ptr %a, i64 24
  store i32 %g1, ptr %p6
  %gp2 = getelementptr i8, ptr %Wk, i64 40
  %g2 = load i32, ptr %gp2
  %p7 = getelementptr i8, ptr %a, i64 28
  store i32 %g2, ptr %p7
  %p8 = getelementptr i8, ptr %a, i64 800
  store ptr %data, ptr %p8
  %wide_size = zext i32 %size to i64
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %i.next, %lane.done ]
  %ap = getelementptr ptr, ptr %addresses, i64 %i
  %address = load i64, ptr %ap
  %ao = getelementptr i8, ptr %a, i64 32
  %at = getelementptr i64, ptr %ao, i64 %i
  store i64 %address, ptr %at
  %lo0 = icmp eq i64 %n, 0
  br i1 %lo0, label %unknown, label %first.root
unknown:
  br label %lane.done
first.root:
  %b0p = getelementptr i64, ptr %bounds, i64 2
  %bs = load i64, ptr %b0p
  %bo = mul i64 %bs, %i
  %b00 = load i64, ptr %bounds
  %b1p = getelementptr i64, ptr %bounds, i64 1
  %b10 = load i64, ptr %b1p
  %b0 = add i64 %b00, %bo
  %b1 = add i64 %b10, %bo
  br label %root
root:
  %r = phi i64 [ 0, %first.root ], [ %r.next, %root.next ]
  %rlp = getelementptr [3 x i64], ptr %bounds, i64 %r
  %rhp = getelementptr i64, ptr %rlp, i64 1
  %rsp = getelementptr i64, ptr %rlp, i64 2
  %rl0 = load i64, ptr %rlp
  %rh0 = load i64, ptr %rhp
  %rs = load i64, ptr %rsp
  %ro = mul i64 %rs, %i
  %rl = add i64 %rl0, %ro
  %rh = add i64 %rh0, %ro
  %above = icmp uge i64 %address, %rl
  %endd = add i64 %address, %wide_size
  %below = icmp ule i64 %endd, %rh
  %hit = and i1 %above, %below
  br i1 %hit, label %lane.done, label %root.next
root.next:
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %n
  br i1 %r.more, label %root, label %lane.none
lane.none:
  br label %lane.done
lane.done:
  %lo = phi i64 [ 0, %unknown ], [ %rl, %root ], [ %b0, %lane.none ]
  %hi = phi i64 [ 0, %unknown ], [ %rh, %root ], [ %b1, %lane.none ]
  %loo = getelementptr i8, ptr %a, i64 288
  %lop = getelementptr i64, ptr %loo, i64 %i
  store i64 %lo, ptr %lop
  %hio = getelementptr i8, ptr %a, i64 544
  %hip = getelementptr i64, ptr %hio, i64 %i
  store i64 %hi, ptr %hip
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 32
  br i1 %more, label %lane, label %call
call:
  %fp = getelementptr i8, ptr %L, i64 LAUNCH_SLOW
  %fn = load ptr, ptr %fp
  call void %fn(ptr %L, ptr %a)
  ret void
}
"""


def mma_function() -> str:
    """8x8x8 multiply-accumulate on matrices in lane layout, for registers of eight floats.

    Chunk 2h+w holds rows 4h..4h+3, columns 4w..4w+3, with even columns in element 0 and odd ones in element 1. The left
    operand is spread by duplicating even or odd lanes, the right one by broadcasting 64 bits.
    """
    v = "<8 x float>"
    lines = ["define internal fastcc void @mc.mma(ptr %c, ptr %a, ptr %b) noinline nounwind {"]
    counter = 0

    def temp(text: str) -> str:
        nonlocal counter
        counter += 1
        lines.append(f"  %m{counter} = {text}")
        return f"%m{counter}"

    sums = []
    for i in range(8):
        at = temp(f"getelementptr i8, ptr %c, i64 {32 * i}")
        sums.append(temp(f"load {v}, ptr {at}, align 32"))
    for k in range(8):
        rights = {}
        for w in (0, 1):
            for e in (0, 1):
                offset = 32 * (2 * (2 * (k // 4) + w) + e) + 8 * (k % 4)
                at = temp(f"getelementptr i8, ptr %b, i64 {offset}")
                pair = temp(f"load double, ptr {at}, align 8")
                one = temp(f"insertelement <4 x double> poison, double {pair}, i64 0")
                all_four = temp(f"shufflevector <4 x double> {one}, <4 x double> poison, <4 x i32> zeroinitializer")
                rights[w, e] = temp(f"bitcast <4 x double> {all_four} to {v}")
        for h in (0, 1):
            at = temp(f"getelementptr i8, ptr %a, i64 {32 * (2 * (2 * h + k // 4) + k % 2)}")
            row = temp(f"load {v}, ptr {at}, align 32")
            first = k % 4 // 2
            picks = ", ".join(f"i32 {2 * i + first}" for i in range(4) for _ in (0, 1))
            left = temp(f"shufflevector {v} {row}, {v} poison, <8 x i32> <{picks}>")
            for w in (0, 1):
                for e in (0, 1):
                    i = 2 * (2 * h + w) + e
                    sums[i] = temp(f"call {v} @llvm.fma.v8f32({v} {left}, {v} {rights[w, e]}, {v} {sums[i]})")
    for i in range(8):
        at = temp(f"getelementptr i8, ptr %c, i64 {32 * i}")
        lines.append(f"  store {v} {sums[i]}, ptr {at}, align 32")
    lines += ["  ret void", "}"]
    return "\n".join(lines)
