// SPDX-License-Identifier: Apache-2.0
// A program of C++98 that uses the installed C ABI alone: a mesh learns, is saved to memory and goes on from there.

#include <weft.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

const char* const kNetwork =
    "{\"weft\": 2, \"inputs\": {\"bits\": [2]}, \"chain\": [{\"type\": \"dense\", \"out\": 2}], \"learning\": {}}";

std::string hash_of(weft_mesh* mesh) {
  std::vector<char> text(33);
  return weft_mesh_state_hash(mesh, 0, &text[0], text.size(), NULL) ? weft_last_error()->message : &text[0];
}

int failed() {
  std::fprintf(stderr, "%s: %s\n", weft_last_error()->name, weft_last_error()->message);
  return 1;
}

}  // namespace

int main() {
  const float bits[] = {0, 1};
  const std::string text = kNetwork;
  weft_network* network = NULL;
  weft_mesh *mesh = NULL, *again = NULL;
  weft_learner *learner = NULL, *later = NULL;
  if (weft_network_read(text.data(), text.size(), "c_abi", &network) || weft_mesh_build(network, NULL, &mesh) ||
      weft_learner_build(mesh, NULL, &learner) || weft_learner_learn_one(learner, bits, 2, 1))
    return failed();
  size_t needed = 0;
  if (weft_mesh_save_bytes(mesh, 1, NULL, 0, &needed)) return failed();
  std::vector<char> file(needed);
  if (weft_mesh_save_bytes(mesh, 1, &file[0], file.size(), &needed) ||
      weft_learner_load_bytes(&file[0], needed, NULL, &again, &later) || weft_learner_learn_one(learner, bits, 2, 0) ||
      weft_learner_learn_one(later, bits, 2, 0))
    return failed();
  std::printf("%s\n%s\n", hash_of(mesh).c_str(), hash_of(again).c_str());
  const bool is_same = hash_of(mesh) == hash_of(again);
  if (weft_learner_destroy(learner) || weft_learner_destroy(later) || weft_mesh_destroy(mesh) ||
      weft_mesh_destroy(again) || weft_network_destroy(network))
    return failed();
  return is_same ? 0 : 1;
}
