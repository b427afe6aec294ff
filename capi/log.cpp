// SPDX-License-Identifier: Apache-2.0

#include "core/log.hpp"

#include "capi/internal/call.hpp"
#include "capi/weft.h"

#include "core/log_function.hpp"

static_assert(WEFT_LOG_TRACE == int(weft::LogLevel::trace) && WEFT_LOG_DEBUG == int(weft::LogLevel::debug) &&
              WEFT_LOG_INFO == int(weft::LogLevel::info) && WEFT_LOG_WARN == int(weft::LogLevel::warn) &&
              WEFT_LOG_ERROR == int(weft::LogLevel::error) && WEFT_LOG_OFF == int(weft::LogLevel::off));

weft_status weft_set_log(weft_log_function function, void* user, int level) {
  if (level < WEFT_LOG_TRACE || level > WEFT_LOG_OFF)
    return weft::capi::report(WEFT_OUT_OF_RANGE, "level: outside [WEFT_LOG_TRACE, WEFT_LOG_OFF]");
  weft::set_log_function(function, user, static_cast<weft::LogLevel>(level));
  return WEFT_OK;
}
