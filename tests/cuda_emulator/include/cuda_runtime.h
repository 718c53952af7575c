// CUDA's language for g++: a kernel is a function, a thread a fiber that runs it. With cuda_runtime_api.h.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"

#include "kaon_emulator/device_math.h"
#include "kaon_emulator/language.h"
#include "kaon_emulator/launch.h"
#include "kaon_emulator/threads.h"
