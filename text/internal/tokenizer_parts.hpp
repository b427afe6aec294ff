// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/added_tokens.hpp"
#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/token_decoder.hpp"
#include "text/token_model.hpp"
#include "text/tokenizer.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::text {

/// Parts of a tokenizer; a null step does nothing.
struct Tokenizer::Parts {
  AddedTokens raw, normalized;  // searched in the text as it is, and as the normalizer leaves it
  std::unordered_map<TokenId, AddedToken> added;
  std::unordered_map<std::string, TokenId> added_ids;
  std::unordered_map<TokenId, std::string> spelled;  // added tokens that the normalizer writes otherwise, so written
  std::shared_ptr<const Normalizer> normalizer;
  std::shared_ptr<const PreTokenizer> pre_tokenizer;
  std::shared_ptr<const TokenModel> model;
  std::shared_ptr<const TokenDecoder> decoder;
  std::vector<TokenId> before, after;  // of every text
};

/// A value of tokenizer.json's "model".
Result<std::shared_ptr<const TokenModel>> make_token_model(const Json& json, const std::string& path);
/// Adds a token to what is searched for, and to the ids. @pre the model and the normalizer are there
/// @error corrupt: the vocabulary has another id for it, or another token for its id; duplicate_name; as AddedTokens
Status add_token(Tokenizer::Parts& parts, AddedToken token);
/// A value of "post_processor", for a single text. @error not_found: a special token that it does not define
Status read_post_processor(const Json& json, const std::string& path, Tokenizer::Parts& parts);

}  // namespace weft::text
