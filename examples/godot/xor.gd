# SPDX-License-Identifier: Apache-2.0
#   weft serve --port 8080 &
#   godot3-server --path examples/godot -s xor.gd        (or godot3; the port: WEFT_PORT)
# A mesh learns xor while it is asked, and says what it is.
extends SceneTree

const NETWORK := {
	"weft": 2, "inputs": {"bits": [2]},
	"chain": [{"type": "dense", "out": 16, "activation": "tanh"}, {"type": "dense", "out": 2}],
	"learning": {"rule": "backprop", "optimizer": {"lr": 0.1}},
}


func _init() -> void:
	var port := OS.get_environment("WEFT_PORT")
	var mesh = load("res://weft.gd").new("127.0.0.1", int(port) if port else 8080)
	mesh.ask(HTTPClient.METHOD_POST, "/meshes", {"name": "xor", "network": NETWORK})
	if mesh.problem:
		printerr(mesh.problem)
		quit(1)
		return
	var rows := [[0, 0], [0, 1], [1, 0], [1, 1]]
	var samples := []
	for row in rows:
		samples.append({"inputs": {"bits": row}, "targets": {"y": row[0] ^ row[1]}})
	for _pass in range(500):
		mesh.ask(HTTPClient.METHOD_POST, "/meshes/xor/learn", {"samples": samples})
		if mesh.problem:
			break
	var answer = null if mesh.problem else mesh.ask(HTTPClient.METHOD_POST, "/meshes/xor/forward", {"inputs": {"bits": rows}})
	var hash_of = null if mesh.problem else mesh.ask(HTTPClient.METHOD_GET, "/meshes/xor/hash")
	if mesh.problem:
		printerr(mesh.problem)
		quit(1)
		return
	for i in range(4):
		var y: Array = answer["outputs"]["y"][i]
		print("%d xor %d = %d" % [rows[i][0], rows[i][1], int(y[1] > y[0])])
	print("state ", hash_of["hash"])
	quit()
