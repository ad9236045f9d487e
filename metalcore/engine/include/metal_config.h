// What Metal's compiler predefines and its headers define as macros.
#pragma once

#include "macros.h"
