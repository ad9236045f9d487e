"""LLVM IR as objects: one module that the stages read and rewrite, from clang's text to lockstep."""

from metalcore.engine.ir.copies import copy_of, rename_function
from metalcore.engine.ir.debug import DebugLines, Location, Locations, Scope
from metalcore.engine.ir.edits import Builder, Edits, Names
from metalcore.engine.ir.flat import flat, flattened
from metalcore.engine.ir.function import Function, Module
from metalcore.engine.ir.initial import bytes_of, initial_value
from metalcore.engine.ir.metadata import Metadata
from metalcore.engine.ir.printer import function_text, global_text, print_module
from metalcore.engine.ir.queries import anchor_of, gep_terms, is_alike, is_barrier, is_ignored, type_of
from metalcore.engine.ir.reader import parse
from metalcore.engine.ir.tokens import plain, quoted, without_numbers
from metalcore.engine.ir.types import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    I128,
    POINTER_BYTES,
    PTR,
    SCALARS,
    TOKEN,
    VOID,
    Type,
    array,
    integer,
    struct,
    vector,
)
from metalcore.engine.ir.values import Aggregate, Block, Const, Global, Instr, Parameter, Value, text_of

__all__ = [
    "BFLOAT",
    "DOUBLE",
    "FLOAT",
    "HALF",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "I128",
    "POINTER_BYTES",
    "PTR",
    "SCALARS",
    "TOKEN",
    "VOID",
    "Aggregate",
    "Block",
    "Builder",
    "Const",
    "DebugLines",
    "Edits",
    "Function",
    "Global",
    "Instr",
    "Location",
    "Locations",
    "Metadata",
    "Module",
    "Names",
    "Parameter",
    "Scope",
    "Type",
    "Value",
    "anchor_of",
    "array",
    "bytes_of",
    "copy_of",
    "flat",
    "flattened",
    "function_text",
    "gep_terms",
    "global_text",
    "initial_value",
    "integer",
    "is_alike",
    "is_barrier",
    "is_ignored",
    "parse",
    "plain",
    "print_module",
    "quoted",
    "rename_function",
    "struct",
    "text_of",
    "type_of",
    "vector",
    "without_numbers",
]
