// SPDX-License-Identifier: Apache-2.0

#pragma once

#ifdef WEFT_SANITIZED
// What drivers and layers lose, or hold by pointers that the leak checker does not see, is not ours.
extern "C" __attribute__((visibility("default"), used)) inline const char* __lsan_default_suppressions() {
  return "leak:libvulkan_lvp.so\nleak:libVkLayer_khronos_validation.so\n";
}
#endif
