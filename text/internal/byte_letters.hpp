// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

/// The letters that GPT-2's tokenizers write bytes with: a byte that prints is itself, the other 68 are U+0100 and on.
namespace weft::text {

std::string to_byte_letters(std::string_view bytes);
/// The bytes of letters. Of a text with any other character: its own bytes.
std::string from_byte_letters(std::string_view letters);

}  // namespace weft::text
