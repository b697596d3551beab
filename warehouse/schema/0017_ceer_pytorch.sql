-- Ceer on operators of PyTorch, with default settings and as published.
INSERT INTO pred.system VALUES
    ('ceer_pytorch', 'As ceer, of PyTorch''s operators', 'Hafeez, Gandhi, Ceer, section IV'),
    ('ceer_pytorch_paper', 'As ceer_paper, of PyTorch''s operators', 'Hafeez, Gandhi, Ceer, section IV');
