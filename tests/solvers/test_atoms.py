import torch

from fwnet.solvers.atoms import improve_atoms, initial_atoms, replace_atoms, worst_rows


def generator():
    return torch.Generator().manual_seed(0)


def test_the_atom_of_a_sweep_is_the_best_on_the_sphere():
    draw = generator()
    z = torch.randn(30, 4, dtype=torch.float64, generator=draw)
    z[:, 2] = 0  # an atom that nobody uses
    x = torch.randn(30, 3, dtype=torch.float64, generator=draw)
    atoms = initial_atoms(x, 4, draw)
    improved = improve_atoms(atoms, z.T @ z, z.T @ x, num_sweeps=200)
    assert torch.equal(improved[2], atoms[2])
    error = (x - z @ improved).square().sum()
    for _ in range(200):
        other = improved.clone()
        j = int(torch.randint(4, (), generator=draw))
        step = 0.1 * torch.randn(3, dtype=torch.float64, generator=draw)
        other[j] = torch.nn.functional.normalize(other[j] + step, dim=0)
        assert (x - z @ other).square().sum() >= error - 1e-9


def test_first_atoms_are_samples_and_then_random_directions():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    atoms = initial_atoms(x, 5, generator())
    torch.testing.assert_close(atoms.norm(dim=-1), torch.ones(5))
    samples = {(0.6, 0.8), (0.0, -1.0)}
    assert {tuple(round(v, 4) for v in atom) for atom in atoms[:2].tolist()} == samples
    assert torch.equal(atoms, initial_atoms(x, 5, generator()))
    assert initial_atoms(x, 1, generator()).shape == (1, 2)


def test_the_worst_rows_take_the_place_of_unused_atoms():
    residual = torch.tensor([[0.0, 1.0], [0.0, 0.0], [3.0, 0.0]])
    assert worst_rows(residual, 5).tolist() == [2, 0]
    atoms = torch.eye(2).repeat(2, 1)
    unused = torch.tensor([False, True, True, True])
    replaced, index = replace_atoms(atoms, unused, residual)
    assert index.tolist() == [1, 2]  # there are no more rows to learn from
    assert replaced.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    assert torch.equal(atoms, torch.eye(2).repeat(2, 1))
