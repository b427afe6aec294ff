// SPDX-License-Identifier: Apache-2.0

#pragma once

#ifdef WEFT_SANITIZED
// Leaks of drivers and layers, and memory whose pointers the leak checker does not see, are not ours.
extern "C" __attribute__((visibility("default"), used)) inline const char* __lsan_default_suppressions() {
  return "leak:libvulkan_lvp.so\nleak:libVkLayer_khronos_validation.so\n";
}
#endif
