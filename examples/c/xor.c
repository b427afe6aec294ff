/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <weft.h>

/* A network built layer by layer, with a feedback cell; it learns, answers, and is saved and loaded. */

static int failed(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", what, weft_last_error()->name, weft_last_error()->message);
  return 1;
}

int main(void) {
  static const float bits[8] = {0, 0, 0, 1, 1, 0, 1, 1};
  static const uint32_t labels[4] = {0, 1, 1, 0};
  const size_t width = 2;
  const weft_coord answer = {0, 0, 1, 0};
  weft_network* network;
  weft_mesh* mesh;
  weft_learner* learner;
  weft_mesh_options options = {sizeof(weft_mesh_options)}; /* what is not set takes its default */
  weft_input input;
  weft_target target = {sizeof(weft_target)};
  float y[2];
  char hash[33];
  int i;

  if (weft_network_create("xor", 1, 1, 3, 1, &network) || weft_network_add_input(network, "bits", &width, 1) ||
      weft_network_add_layer(network,
                             "{\"at\": [0,0,0,0], \"type\": \"dense\", \"out\": 16, \"activation\": \"tanh\","
                             " \"from\": [\"bits\", [0,0,2,0]]}") ||
      weft_network_add_layer(network, "{\"at\": [0,0,1,0], \"type\": \"dense\", \"out\": 2}") ||
      weft_network_add_layer(network,
                             "{\"at\": [0,0,2,0], \"type\": \"dense\", \"out\": 8, \"activation\": \"tanh\","
                             " \"from\": [[0,0,0,0]]}") ||
      weft_network_add_output(network, "answer", answer))
    return failed("network");
  options.threads = 1;
  if (weft_mesh_build(network, &options, &mesh)) return failed("mesh");
  weft_network_destroy(network);

  if (weft_learner_build(mesh, "{\"rule\": \"fw_dtp\"}", &learner)) return failed("learner");
  input.name = "bits";
  input.values = bits;
  input.count = 8;
  target.output = "answer";
  target.labels = labels;
  target.label_count = 4;
  for (i = 0; i < 500; ++i)
    if (weft_learner_learn(learner, &input, 1, &target, 1, 4) || weft_learner_clear_scores(learner))
      return failed("learn");
  weft_learner_destroy(learner); /* from here on the mesh only ticks */

  for (i = 0; i < 4; ++i) {
    if (weft_mesh_set_input(mesh, "bits", 0, bits + 2 * i, 2) || weft_mesh_tick(mesh, 2) ||
        weft_mesh_output(mesh, "answer", 0, y, 2, NULL))
      return failed("tick");
    printf("%g xor %g = %d\n", bits[2 * i], bits[2 * i + 1], y[1] > y[0]);
  }
  if (weft_mesh_state_hash(mesh, 0, hash, sizeof hash, NULL)) return failed("hash");
  printf("state %s\n", hash);
  return weft_mesh_destroy(mesh);
}
