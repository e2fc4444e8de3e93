//! The eBPF instructions the programme is made of (RFC 9669), and labels to jump to.

/// A register: 0 holds results, 1 to 5 arguments (lost in a call), 6 to 9 survive calls, 10 is the stack's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reg(pub(super) u8);

/// How much a load or store moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
    Double,
}

impl Size {
    const fn bits(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

/// One instruction as the kernel reads it (`struct bpf_insn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    const fn new(code: u8, destination: Reg, source: Reg, offset: i16, immediate: i32) -> Self {
        // Two bit fields, which C lays out from the other end on big-endian machines.
        let registers =
            if cfg!(target_endian = "big") { destination.0 << 4 | source.0 } else { source.0 << 4 | destination.0 };
        Self { code, registers, offset, immediate }
    }
}

/// A place to jump to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

const NONE: Reg = Reg(0);

/// Collects instructions; jumps are given their distances at the end.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label stands, once it does.
    places: Vec<Option<usize>>,
    /// Which instruction jumps to which label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label that is placed later.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The next instruction is where `label` leads.
    pub(super) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.instructions.len());
    }

    /// The finished programme.
    ///
    /// # Panics
    /// When a label was never placed, or stands before a jump to it: a mistake in this crate, found by its first test.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.places[label.0].expect("every label is placed");
            let distance = to.checked_sub(from + 1).expect("jumps lead forwards");
            self.instructions[from].offset = i16::try_from(distance).expect("a short programme");
        }
        self.instructions
    }

    fn push(&mut self, code: u8, destination: Reg, source: Reg, offset: i16, immediate: i32) {
        self.instructions.push(Instruction::new(code, destination, source, offset, immediate));
    }

    /// `to = *(size *)(from + offset)`
    pub(super) fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.push(0x61 | size.bits(), to, from, offset, 0);
    }

    /// `*(size *)(to + offset) = from`
    pub(super) fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) {
        self.push(0x63 | size.bits(), to, from, offset, 0);
    }

    /// `*(u64 *)(to + offset) += from`, atomically.
    pub(super) fn atomic_add(&mut self, to: Reg, offset: i16, from: Reg) {
        self.push(0xDB, to, from, offset, 0);
    }

    /// `to = from`
    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.push(0xBF, to, from, 0, 0);
    }

    /// `to = value`
    pub(super) fn set(&mut self, to: Reg, value: i32) {
        self.push(0xB7, to, NONE, 0, value);
    }

    /// `to += value`
    pub(super) fn add(&mut self, to: Reg, value: i32) {
        self.push(0x07, to, NONE, 0, value);
    }

    /// `to &= value`
    pub(super) fn and(&mut self, to: Reg, value: i32) {
        self.push(0x57, to, NONE, 0, value);
    }

    /// `*(size *)(to + offset) = value`
    pub(super) fn store_value(&mut self, size: Size, to: Reg, offset: i16, value: i32) {
        self.push(0x62 | size.bits(), to, NONE, offset, value);
    }

    /// `to ^= from`
    pub(super) fn xor(&mut self, to: Reg, from: Reg) {
        self.push(0xAF, to, from, 0, 0);
    }

    /// `to` = all 64 bits of `value`.
    pub(super) fn set_wide(&mut self, to: Reg, value: u64) {
        self.wide(to, 0, value as u32, (value >> 32) as u32);
    }

    /// `to` = the map behind a file descriptor, as an argument of a call.
    pub(super) fn map(&mut self, to: Reg, fd: i32) {
        self.wide(to, 1, fd.cast_unsigned(), 0);
    }

    /// `to` = the address of the first value of an array map.
    pub(super) fn map_value(&mut self, to: Reg, fd: i32) {
        self.wide(to, 2, fd.cast_unsigned(), 0);
    }

    fn wide(&mut self, to: Reg, kind: u8, low: u32, high: u32) {
        self.push(0x18, to, Reg(kind), 0, low.cast_signed());
        self.push(0, NONE, NONE, 0, high.cast_signed());
    }

    /// Calls a function of the kernel: arguments in registers 1 to 5, its result in 0.
    pub(super) fn call(&mut self, helper: i32) {
        self.push(0x85, NONE, NONE, 0, helper);
    }

    /// Calls a function of the kernel that is no helper, by its number in the kernel's type information.
    pub(super) fn call_kernel(&mut self, function: u32) {
        self.push(0x85, NONE, Reg(2), 0, function.cast_signed());
    }

    /// Ends the programme with what register 0 holds.
    pub(super) fn exit(&mut self) {
        self.push(0x95, NONE, NONE, 0, 0);
    }

    /// `if left == value goto label`
    pub(super) fn jump_equal(&mut self, left: Reg, value: i32, label: Label) {
        self.jump_if(0x15, left, NONE, value, label);
    }

    /// `if left != value goto label`, comparing 32 bits
    pub(super) fn jump_unequal(&mut self, left: Reg, value: u32, label: Label) {
        self.jump_if(0x56, left, NONE, value.cast_signed(), label);
    }

    /// `if left > right goto label`
    pub(super) fn jump_greater(&mut self, left: Reg, right: Reg, label: Label) {
        self.jump_if(0x2D, left, right, 0, label);
    }

    /// `goto label`
    pub(super) fn jump(&mut self, label: Label) {
        self.jump_if(0x05, NONE, NONE, 0, label);
    }

    fn jump_if(&mut self, code: u8, left: Reg, right: Reg, value: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(code, left, right, 0, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_standard() {
        let mut a = Assembler::default();
        let end = a.label();
        a.load(Size::Half, Reg(5), Reg(2), 12);
        a.jump_unequal(Reg(5), 0x2CB6, end);
        a.store(Size::Double, Reg(10), -8, Reg(1));
        a.set_wide(Reg(3), 0x1122_3344_5566_7788);
        a.jump(end);
        a.store_value(Size::Half, Reg(10), -6, 7);
        a.place(end);
        a.call_kernel(66_009);
        a.exit();
        let line = |code, registers, offset, immediate| Instruction { code, registers, offset, immediate };
        let expected = [
            line(0x69, 0x25, 12, 0),
            line(0x56, 0x05, 5, 0x2CB6),
            line(0x7B, 0x1A, -8, 0),
            line(0x18, 0x03, 0, 0x5566_7788),
            line(0x00, 0x00, 0, 0x1122_3344),
            line(0x05, 0x00, 1, 0),
            line(0x6A, 0x0A, -6, 7),
            line(0x85, 0x20, 0, 66_009),
            line(0x95, 0x00, 0, 0),
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(a.finish(), expected);
        }
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
