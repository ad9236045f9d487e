#pragma once
#include "../macros.h"
